// What the page uses of xterm.js; its own types lie in the npm package.
export class Terminal {
  constructor(options: Record<string, unknown>);
  rows: number;
  cols: number;
  options: { disableStdin: boolean };
  loadAddon(addon: unknown): void;
  open(parent: HTMLElement): void;
  write(data: Uint8Array): void;
  focus(): void;
  dispose(): void;
  onData(told: (text: string) => void): void;
  onBinary(told: (text: string) => void): void;
  onResize(told: (size: { rows: number; cols: number }) => void): void;
  attachCustomKeyEventHandler(handler: (event: KeyboardEvent) => boolean): void;
}
