// Routekeeper keeps AKS pod routes true.
package main

import (
	"os"

	"routekeeper.dev/routekeeper/internal/cli"
)

func main() { os.Exit(cli.Main()) }
