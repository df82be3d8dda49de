// What the page uses of Preact; its own types lie in the npm package.
export type VNode = object;
export type Child = VNode | string | number | boolean | null | undefined | Child[];
export function h(type: unknown, props: unknown, ...children: Child[]): VNode;
export function render(node: VNode, parent: Element): void;
export const Fragment: unknown;
