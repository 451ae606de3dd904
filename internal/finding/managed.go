package finding

import "fmt"

// Managed counts what a keeper manages: clusters, and networks without clusters, such as a hub.
// These have a name and a state as clusters do, and no nodes and pods.
func Managed(all, networks int) string {
	noun := "cluster"
	switch {
	case networks > 0 && networks < all:
		return fmt.Sprintf("%d clusters and networks", all)
	case networks > 0:
		noun = "network"
	}
	if all != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", all, noun)
}
