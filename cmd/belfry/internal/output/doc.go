// Package output prints the results of commands in the form that the caller asks for.
//
//	-o table    aligned columns for people, the default
//	-o wide     a table with more columns
//	-o json     one JSON value a line: one line for a single result, a line each for several; also --json
//	-o yaml     a YAML document for each of these values, between lines of ---
//
// JSON and YAML have the same fields, with the names and the order of the HTTP interface. Numbers keep their digits.
//
// Why not sigs.k8s.io/yaml for YAML? It sorts the fields, and turns numbers into floats.
package output
