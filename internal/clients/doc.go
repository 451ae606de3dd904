// Package clients tests the emulator with real clients over HTTPS: the Azure SDK for Go, the Azure
// CLI, kubectl, and the calls of Terraform's azurerm provider and of the cloud provider. It holds
// tests only, and is a module of its own, so that no other test waits until the SDK's clients are
// compiled.
//
// A test here asserts what a client got back and what went over the wire (the emulator's request
// log), not only the absence of an error: clients are forgiving. It must only use package emulator,
// to start it and to read its log. Fix what a client needs in package emulator; there are no
// exceptions here.
package clients
