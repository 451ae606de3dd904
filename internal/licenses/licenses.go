// Package licenses holds the licences of the modules that are linked into the program.
package licenses

import _ "embed"

// Text is generated: go test . -run Licenses -update
//
//go:embed third-party.txt
var Text string
