// Markdown as an agent writes it, made safe: parsed, sanitized, and handed to the browser as the one kind of markup that its policy
// takes. Nothing of it loads anything or leads anywhere but by a click.
import DOMPurify from "dompurify";
import { Marked } from "marked";

/** Beyond this a text is shown as it is: to parse it takes longer than anybody waits. */
export const PARSED_MAX = 64 * 1024;

const marked = new Marked({ gfm: true, breaks: true, async: false });
const ALLOWED = [
  "a", "p", "br", "hr", "b", "strong", "i", "em", "del", "s", "code", "pre", "blockquote", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6",
  "table", "thead", "tbody", "tr", "th", "td", "span", "sup", "sub",
];

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  // A link leaves the page, and takes nothing along.
  if (/^https?:/i.test(node.getAttribute("href") ?? "")) {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  } else node.removeAttribute("href");
});

/** The markup of a text. */
export function markup(text: string): TrustedMarkup {
  const html = marked.parse(plainControls(text)) as string;
  return DOMPurify.sanitize(html, { ALLOWED_TAGS: ALLOWED, ALLOWED_ATTR: ["href", "start", "align"], ALLOW_DATA_ATTR: false, RETURN_TRUSTED_TYPE: true }) as unknown as TrustedMarkup;
}

/** What `innerHTML` takes where the policy asks for more than text. */
export type TrustedMarkup = string & { readonly trusted?: never };

/** Without what turns letters round or moves a cursor: shown as signs of their own. */
export function plainControls(text: string): string {
  return text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g, "").replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, (sign) => String.fromCharCode(0x2400 + (sign === "\u007f" ? 0x21 : sign.charCodeAt(0)))).replace(/[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/g, (sign) => `\u27e8U+${sign.charCodeAt(0).toString(16).toUpperCase()}\u27e9`);
}
