// Package deploy is the parent folder of the packages that run Belfry: the local cluster, the demo, a receiver to try
// webhooks with, and their child processes. It has no code of its own.
package deploy
