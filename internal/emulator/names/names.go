// Package names has the names of properties in Azure's API specification, a file for each service.
// A test in internal/clients writes them from the Azure SDK for Go.
package names

import "embed"

//go:embed *.txt
var files embed.FS

// Of returns the names of a service.
func Of(service string) string {
	raw, err := files.ReadFile(service + ".txt")
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(raw)
}
