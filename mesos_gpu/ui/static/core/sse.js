/**
 * Server-sent events: text in, whole events out. Holds no connection.
 * Source: HTML Living Standard, 9.2.6 (interpreting an event stream), without ids and retry.
 */
export class SseDecoder {
  constructor() {
    this.rest = "";
  }

  /**
   * Returns the events that `text` completes; keeps what is left.
   * @param {string} text
   * @returns {{type: string, data: string}[]}
   */
  feed(text) {
    const blocks = (this.rest + text).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = blocks.pop() ?? "";
    const found = [];
    for (const block of blocks) {
      let type = "message";
      const data = [];
      for (const line of block.split("\n")) {
        const [name, ...value] = line.split(":");
        const text = value.join(":").replace(/^ /, "");
        if (name === "event") type = text;
        if (name === "data") data.push(text);
      }
      if (data.length > 0) found.push({ type, data: data.join("\n") });
    }
    return found;
  }
}
