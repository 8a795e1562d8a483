// Package install holds tests of everything that installs Belfry: the unit, the deb and the rpm, the files of the
// image, the pods of the chart. A folder that a node takes for its root stands for a machine, a pod or a container.
//
//	go test ./...    all that needs only Go
//	make packages    all, with real packages and real nodes; it needs Linux and root
//
// No test here builds or runs an image, or asks a Kubernetes cluster.
package install
