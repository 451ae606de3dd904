// Package docs embeds the page that is also the program's text about findings.
package docs

import _ "embed"

// Findings is the page of all findings. Package finding reads it.
//
//go:embed findings.md
var Findings string
