// Package clients is where real clients meet the local Azure: the Azure SDK for Go, the Azure CLI,
// and the calls of Terraform's azurerm provider, all over HTTPS, as anybody else would use them. It
// holds tests only, so that the program links none of the SDK's resource modules.
//
// A test here asserts on what a client got back and on what went over the wire (the emulator's
// request log), not on the absence of an error: clients are forgiving. It uses nothing of the
// program but package emulator, and of that only how it is started and what it has logged. What a
// client needs is fixed in package emulator; there are no exceptions for it here.
package clients
