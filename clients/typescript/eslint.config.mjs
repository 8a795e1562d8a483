import js from "@eslint/js";
import ts from "typescript-eslint";

export default ts.config({ ignores: ["test/openapi.d.ts"] }, js.configs.recommended, ...ts.configs.strictTypeChecked, {
  languageOptions: { parserOptions: { projectService: true } },
  rules: {
    "@typescript-eslint/no-confusing-void-expression": "off", // short handlers
    "@typescript-eslint/no-invalid-void-type": "off", // a handler without an answer
    "@typescript-eslint/no-redundant-type-constituents": "off", // Instant | Duration says which texts are taken
    "@typescript-eslint/no-non-null-assertion": "off", // noUncheckedIndexedAccess demands them
    "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
  },
}, {
  files: ["test/**", "**/*.mjs"], // vitest and Node.js hand values without types to them
  extends: [ts.configs.disableTypeChecked],
  rules: { "no-undef": "off" }, // Node.js runs them, and undefined names fail there
});
