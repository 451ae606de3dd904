package network

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/names"
)

// allNames returns all properties that this package knows. Azure spells some in another way than
// its specification, as links do.
func allNames() string {
	out := []string{names.Of("network"), privateZoneNames, "autoscaleConfiguration", "managedBy",
		"routeServiceVips", "peerCompleteVnets"}
	add := func(path string) {
		out = append(out, strings.Split(strings.ReplaceAll(path, "[]", ""), ".")...)
	}
	for _, l := range Links {
		add(l.path)
	}
	return strings.Join(out, " ")
}
