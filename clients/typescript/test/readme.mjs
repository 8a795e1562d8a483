// Writes the code of README.md to test/readme, where it is compiled and run.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const at = new URL("readme/", import.meta.url);
rmSync(at, { recursive: true, force: true });
mkdirSync(at, { recursive: true });
const page = readFileSync(new URL("../README.md", import.meta.url), "utf8");
for (const [, name, code] of page.matchAll(/```ts (\w+)\n(.*?)```/gs)) {
  const file = name === "test" ? "test.test.ts" : `${name}.ts`;
  writeFileSync(new URL(file, at), code);
}
