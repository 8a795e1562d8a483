// Package otlp sends the spans of a node to a collector, by the OpenTelemetry protocol over HTTP.
//
// The settings of the node come first, then the standard variables of OpenTelemetry:
//
//	setting               variables
//	Config.Endpoint       OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT; without any of the three,
//	                      no spans are made
//	Config.Ratio          OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG
//	                      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL: http/protobuf or nothing
//	                      OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
//	                      OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE, _TIMEOUT and _COMPRESSION, also with TRACES_
//	                      OTEL_BSP_*, OTEL_SPAN_*_LIMIT
//	                      OTEL_SDK_DISABLED=true, OTEL_TRACES_EXPORTER=none: no spans are made
//
// Spans wait in a bounded queue (2048), and are dropped if the collector is away or too slow: no call and no attempt
// waits for it.
//
// Why not gRPC as well: every collector takes both protocols, and a second exporter makes the program larger.
package otlp
