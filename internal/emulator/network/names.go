package network

import (
	_ "embed"
	"strings"
)

// specified holds the names of the properties in Azure's API specification. A test in
// internal/clients writes the file from the Azure SDK for Go.
//
//go:embed names.txt
var specified string

// names returns all properties that this package knows. Azure spells some in another way than its
// specification, as links do.
func names() string {
	out := []string{specified, privateZoneNames, "autoscaleConfiguration", "managedBy",
		"routeServiceVips", "peerCompleteVnets"}
	add := func(path string) {
		out = append(out, strings.Split(strings.ReplaceAll(path, "[]", ""), ".")...)
	}
	for _, l := range Links {
		add(l.path)
	}
	for _, f := range newerFields {
		add(f.Path)
	}
	return strings.Join(out, " ")
}
