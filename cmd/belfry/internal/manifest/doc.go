// Package manifest reads the documents of "belfry apply": YAML or JSON, several in a file.
//
//	kind: queue            # namespace, calendar, queue, schedule or key
//	name: orders           # the id of a schedule
//	namespace: shop        # of a calendar, a queue or a schedule; absent: that of the call
//	spec:                  # the body of the call that makes it
//	  max_in_flight: 20
//
// A document is converted to JSON, and its members are checked by the strict readers of package contract. So an error
// names the file, the line and the field, and no misspelt member is left out. Values are read by package client and, in
// the end, by the service.
//
// Why not the decoder of the YAML library with KnownFields? It knows the fields of Go types, but the types of package
// client read themselves. Why not the schemas of openapi.yaml? The binary has no validator for
// them, and the errors of one name schemas. A test holds the names here and openapi.yaml together.
package manifest
