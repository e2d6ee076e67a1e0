// Types of the methods that the page calls, from the description that `ostler api` prints: `ostler api | node api.mjs`.
import { readFileSync, writeFileSync } from "node:fs";

const USED = [
  "instance.hello", "instance.agents", "hosted.list", "session.create", "session.get", "session.prompt", "session.edit", "session.interrupt", "session.continue",
  "session.change", "session.close", "session.watch", "session.unwatch", "session.read", "session.changes", "session.review", "feed.follow", "approval.list", "approval.get", "approval.shown",
  "approval.decide", "rule.list", "rule.revoke", "audit.read", "audit.verify", "device.code", "device.redeem", "device.refresh", "device.challenge",
  "device.prove", "device.show", "device.list", "device.revoke", "device.trouble", "workspace.list", "process.get", "process.attach", "process.detach", "process.stdin", "process.resize",
  "notice.list", "notice.key", "notice.subscribe", "notice.unsubscribe", "notice.looking",
];
const TOLD = ["session.pieces", "session.gap", "session.lost", "feed.changes", "feed.gap", "feed.lost", "process.frame", "process.exit", "process.gap", "process.lost"];

const { methods, "x-notifications": notifications } = JSON.parse(readFileSync(0, "utf8"));

function type(schema) {
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.oneOf) return schema.oneOf.map(type).join(" | ");
  if (schema.prefixItems) return `[${schema.prefixItems.map(type).join(", ")}]`;
  switch (schema.type) {
    case "string": return "string";
    case "boolean": return "boolean";
    case "integer":
    case "number": return "number";
    case "array": return `(${type(schema.items)})[]`;
    case "object": return schema.properties ? object(schema) : schema.additionalProperties ? `Record<string, ${type(schema.additionalProperties)}>` : "Record<string, unknown>";
    default: return "unknown";
  }
}

function object(schema) {
  const required = new Set(schema.required ?? []);
  // What is there and unknown is null.
  const members = Object.entries(schema.properties).map(([name, member]) => required.has(name) ? `${name}: ${type(member)}` : `${name}?: ${type(member)} | null`);
  return members.length ? `{ ${members.join("; ")} }` : "Record<string, never>";
}

function params(list) {
  const members = list.map(({ name, required, schema }) => `${name}${required ? "" : "?"}: ${type(schema)}`);
  return members.length ? `{ ${members.join("; ")} }` : "Record<string, never>";
}

function found(all, name) {
  const one = all.find((each) => each.name === name);
  if (!one) throw new Error(`ostler api describes no ${name}`);
  return one;
}

const lines = ["// Made by api.mjs from `ostler api`; do not edit.", "", "export interface Methods {"];
for (const name of USED) {
  const { params: list, result } = found(methods, name);
  lines.push(`  ${JSON.stringify(name)}: { params: ${params(list)}; result: ${type(result.schema)} };`);
}
lines.push("}", "", "export interface Notifications {");
for (const name of TOLD) lines.push(`  ${JSON.stringify(name)}: ${params(found(notifications, name).params)};`);
lines.push("}", "");
writeFileSync(new URL("src/api.ts", import.meta.url), lines.join("\n"));
