package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/lazy"
)

// plugin is the name of this program as a kubectl plugin: kubectl runs kubectl-routekeeper from the
// PATH.
const plugin = "kubectl routekeeper"

// programOf derives the name by which the user called the program from the name of its file.
func programOf(path string) string {
	if strings.TrimSuffix(filepath.Base(path), ".exe") == strings.ReplaceAll(plugin, " ", "-") {
		return plugin
	}
	return "routekeeper"
}

// called matches possible command lines of this program in a text.
var called = lazy.Regexp(`\broutekeeper ([\w-]+)`)

// inProgram replaces the program's name in the command lines of a text with the name by which the
// user called it.
func inProgram(c *cobra.Command, text string) string {
	root := c.Root()
	if root.DisplayName() != plugin {
		return text
	}
	text = called().ReplaceAllStringFunc(text, func(line string) string {
		word := called().FindStringSubmatch(line)[1]
		if found, _, err := root.Find([]string{word}); !strings.HasPrefix(word, "-") &&
			(err != nil || found == root) {
			return line
		}
		return "kubectl " + line
	})
	return strings.ReplaceAll(text, "kubectl "+plugin, plugin)
}
