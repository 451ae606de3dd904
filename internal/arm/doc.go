// Package arm has what all Azure Resource Manager resources share: IDs, the envelope of documents,
// and the comparison of two documents.
//
// It must not know any resource type: those are in inventory. It is pure: no context, clock,
// logger, network or files.
package arm
