// Routekeeper keeps AKS pod routes correct.
package main

import (
	"os"

	"routekeeper.dev/routekeeper/internal/cli"
)

func main() { os.Exit(cli.Main()) }
