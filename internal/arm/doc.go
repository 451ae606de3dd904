// Package arm holds what all Azure Resource Manager resources have in common: their IDs, the envelope of
// their documents, and whether two documents say the same.
//
// It must not know any type of resource: those are in inventory. It is pure: no context, clock, logger,
// network or files.
package arm
