// Package docs embeds the pages that are also the program's texts: one owner for each text.
package docs

import _ "embed"

// Findings is the page of all findings. Package finding reads it.
//
//go:embed findings.md
var Findings string

// Prove is the page of the facts about Azure. Package prove reads it.
//
//go:embed prove.md
var Prove string

// Networking is the page that explains the network plugins. Package topic reads it.
//
//go:embed networking.md
var Networking string
