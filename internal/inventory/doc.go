// Package inventory holds what the rest of the program reasons about: route tables, subnets, networks,
// clusters and the addresses of their nodes, decoded from the documents that ARM returns; a Snapshot of
// them; and the edits that can be made to those documents.
//
// It is pure: no context, clock, logger, network or files. It decides nothing (that is plan) and reads
// nothing (that is azure). Every decoded value keeps the bytes it came from, because a resource is only
// ever written back as those bytes with one thing changed.
package inventory
