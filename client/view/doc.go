// Package view describes a cluster as the answers of the HTTP interface do: its nodes, shards, operations, namespaces
// and keys. The nodes write these types as JSON, and package client reads them, under names of its own.
//
// Why is the package not a part of client? A node makes the answers, and needs no client for that. And why is it not
// internal? Programs read the fields of the types.
package view
