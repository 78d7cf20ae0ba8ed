/** Colours, if enabled. */
import { styleText } from "node:util";

type Paint = (text: string) => string;

export interface Style {
  readonly bold: Paint;
  readonly dim: Paint;
  readonly red: Paint;
  readonly green: Paint;
  readonly yellow: Paint;
  readonly cyan: Paint;
}

export function makeStyle(colours: boolean): Style {
  const paint =
    (format: Parameters<typeof styleText>[0]): Paint =>
    (text) =>
      colours ? styleText(format, text, { validateStream: false }) : text;
  return {
    bold: paint("bold"),
    dim: paint("dim"),
    red: paint("red"),
    green: paint("green"),
    yellow: paint("yellow"),
    cyan: paint("cyan"),
  };
}
