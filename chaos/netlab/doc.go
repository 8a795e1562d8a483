// Package netlab is a network in a box: hosts that processes can run on, each a network namespace, and what joins them.
package netlab
