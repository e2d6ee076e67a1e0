// One WebSocket to the instance: requests, answers, and what it says without being asked. It knows no method's meaning.
import type { Methods, Notifications } from "./api.ts";

/** The instance said no. */
export class Refused extends Error {
  constructor(message: string, readonly kind: string, readonly hint: string) {
    super(message);
  }
}

/** The connection ended before the answer came. */
export class Gone extends Error {}

type Waiting = { answer: (result: never) => void; fail: (error: Error) => void };
export type Told = { [M in keyof Notifications]: { method: M; params: Notifications[M] } }[keyof Notifications];

export class Connection {
  private readonly socket: WebSocket;
  private readonly waiting = new Map<number, Waiting>();
  private last = 0;
  /** What is called with every notification, in their order. */
  told: (told: Told) => void = () => {};
  /** What is called once, when it has ended. */
  ended: () => void = () => {};

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.onmessage = (event) => this.heard(String(event.data));
    socket.onclose = () => this.end();
  }

  static open(): Promise<Connection> {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/rpc`);
    return new Promise((opened, failed) => {
      socket.onopen = () => opened(new Connection(socket));
      socket.onclose = () => failed(new Gone("the instance does not answer"));
    });
  }

  call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    if (this.socket.readyState !== WebSocket.OPEN) return Promise.reject(new Gone("the connection is lost"));
    const id = ++this.last;
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return new Promise((answer, fail) => this.waiting.set(id, { answer: answer as Waiting["answer"], fail }));
  }

  close(): void {
    this.socket.close();
    this.end();
  }

  private heard(text: string): void {
    for (const line of text.split("\n")) {
      if (!line) continue;
      const message = JSON.parse(line);
      if (message.id === undefined) {
        this.told(message);
        continue;
      }
      const waiting = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) waiting?.fail(new Refused(message.error.message, message.error.data?.kind ?? "", message.error.data?.hint ?? ""));
      else waiting?.answer(message.result as never);
    }
  }

  private end(): void {
    const ended = this.ended;
    this.ended = () => {};
    for (const waiting of this.waiting.values()) waiting.fail(new Gone("the connection is lost"));
    this.waiting.clear();
    ended();
  }
}
