// Package reference writes the pages of the HTTP API, api.md and api/*.md, from httpapi/openapi.yaml. It holds only
// tests: TestAPI compares the pages with the document, and `make reference` writes them anew, with metrics.md, which
// node.TestMetricsReference makes from the metrics of a running node. TestArrows compares the imports of all packages
// with arrows.txt, which `make arrows` writes anew.
//
// The pages keep the order of the document, so the generator reads its YAML tree rather than a decoded form.
package reference
