// Package deploy is the parent folder of the packages that run Belfry: the local cluster, the demo, a receiver to try
// webhooks with, and their child processes. It has no code of its own.
//
// The folders that install Belfry are beside them:
//
//	docker       the image, and a cluster of three nodes in compose
//	helm         the chart
//	kubernetes   the chart with its default values, for clusters without Helm
//	systemd      the unit, its user and its data folder
//	package      the deb and the rpm, and the tests of all of these folders, in a module of their own
package deploy
