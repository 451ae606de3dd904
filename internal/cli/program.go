package cli

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// plugin is how kubectl calls this program: kubectl runs kubectl-routekeeper from the PATH.
const plugin = "kubectl routekeeper"

// programOf is how this program was called, by the name of its file.
func programOf(path string) string {
	if strings.TrimSuffix(filepath.Base(path), ".exe") == strings.ReplaceAll(plugin, " ", "-") {
		return plugin
	}
	return "routekeeper"
}

// called matches what can be a command line of this program in a text.
var called = regexp.MustCompile(`\broutekeeper ([\w-]+)`)

// inProgram has the command lines in a text begin as this program was called.
func inProgram(c *cobra.Command, text string) string {
	root := c.Root()
	if root.DisplayName() != plugin {
		return text
	}
	text = called.ReplaceAllStringFunc(text, func(line string) string {
		word := called.FindStringSubmatch(line)[1]
		if found, _, err := root.Find([]string{word}); !strings.HasPrefix(word, "-") &&
			(err != nil || found == root) {
			return line
		}
		return "kubectl " + line
	})
	return strings.ReplaceAll(text, "kubectl "+plugin, plugin)
}
