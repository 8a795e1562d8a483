import { gzipSync } from "node:zlib";

import { build } from "esbuild";
import { expect, test } from "vitest";

test("the client is small, and imports nothing", async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [new URL("../src/index.ts", import.meta.url).pathname],
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
    metafile: true,
    platform: "browser",
  });
  expect(gzipSync(outputFiles[0]!.contents).length).toBeLessThan(12_000);
  expect(Object.keys(metafile.inputs).filter((name) => !name.includes("src/"))).toEqual([]);
});
