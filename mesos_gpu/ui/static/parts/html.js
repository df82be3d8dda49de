/** The foreign modules, in one place: how the page is drawn, and how it learns what has changed. */
import { Fragment, h, render } from "../vendor/preact.js";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { batch, computed, effect, signal } from "../vendor/signals.js";
import htm from "../vendor/htm.js";

/** Writes elements: html`<p class=${name}>${text}</p>`. Text stays text, whatever is in it. */
export const html = htm.bind(h);
export {
  batch,
  computed,
  effect,
  Fragment,
  render,
  signal,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
};
