// Package observe holds rules for Prometheus, dashboards for Grafana and an example for KEDA, as files, and the test
// that runs them in a real Prometheus beside a real cluster. README.md tells how to use the files. The package has no
// code of its own.
package observe
