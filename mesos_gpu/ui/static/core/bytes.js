/** Bytes as text that JSON can carry. */

const PIECE = 8192;

/** @param {Uint8Array[]} pieces @returns {string} all of them in base64 */
export function toBase64(pieces) {
  let text = "";
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += PIECE) text += String.fromCharCode(...piece.subarray(at, at + PIECE));
  }
  return btoa(text);
}

/** @param {string} text in base64 @returns {Uint8Array} */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
}
