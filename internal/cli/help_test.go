package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandHelps: every command says what it does, with examples.
func TestEveryCommandHelps(t *testing.T) {
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check((&app{}).newRoot())
}
