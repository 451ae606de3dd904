// Package network holds the words the rest of the program thinks in: ARM resource IDs, route tables, subnets, clusters
// and their nodes' addresses, decoded from the documents ARM returns, and the edits that can be made to those documents.
//
// It is pure: no context, clock, logger, network or files. It decides nothing (that is plan) and reads nothing (that is
// azure). Every decoded value keeps the bytes it came from, because a resource is only ever written back as those bytes
// with one thing changed.
package network
