// Package deploy is the folder of everything about running Belfry: the local cluster, the demo, a receiver to try
// things with, and the files for other places. It has no code of its own.
package deploy
