package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/demo"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/report"
)

func (a *app) newDemo() *cobra.Command {
	var web string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Play and check the life of a cluster's routes on a local Azure",
		Long: `Starts a local Azure on loopback, builds a network with a kubenet cluster and an Application Gateway in it, lets the
keeper work on it, and plays eight scenes: a first sync, scaling out, a redeploy that strips route tables, a node with a
new address, other people's routes, scaling in, a table that suddenly reads empty, and quiet. After each the network is
checked through a client that is not the keeper's. No Azure account is needed, and nothing leaves this machine.

With --web it can be watched in a browser, on the pages that run --listen shows. The scenes are played more slowly then, and afterwards
the keeper goes on until Ctrl-C.

Exit code 0 only if every scene is ok; otherwise 1.`,
		Example: `  routekeeper demo
  routekeeper demo --web
  routekeeper demo --web=127.0.0.1:9000
  routekeeper demo -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runDemo(cmd.Context(), web) },
	}
	cmd.Flags().StringVar(&web, "web", "", "show it on pages at this `address` of this machine")
	cmd.Flags().Lookup("web").NoOptDefVal = "127.0.0.1:8080"
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func (a *app) runDemo(ctx context.Context, web string) (err error) {
	if a.emulatorDir != "" {
		return errors.New("--emulator: the demo plays on a local Azure of its own")
	}
	w, format, style, err := a.stream()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "routekeeper-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	show := demoText{w: w, style: style}
	scenes, good, elapsed := 0, 0, time.Duration(0)
	var unwritten error
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	o := demo.Options{
		Dir:           dir,
		OperationTime: 300 * time.Millisecond,
		RouteBatch:    500 * time.Millisecond,
		NewKeeper: func(info emulator.Info, configs []v1alpha1.ClusterRoutes) (demo.Keeper, error) {
			client, err := connectLocal(info, nil, nil)
			if err != nil {
				return nil, err
			}
			return keeper.New(client, configs, keeper.Options{}), nil
		},
		Started: func(info emulator.Info, names emulator.Demo) {
			if format == report.Text {
				unwritten = show.started(info, names)
			}
		},
		Scene: func(s demo.Scene) {
			scenes, elapsed = scenes+1, time.Since(start)
			if s.OK {
				good++
			}
			if format == report.JSON {
				unwritten = errors.Join(unwritten, writeLine(w, sceneLine{s.Name, s.OK, s.Elapsed.Milliseconds(), s.Reads, s.Writes, s.Polls, s.Detail}))
			} else {
				unwritten = errors.Join(unwritten, show.scene(s))
			}
			if unwritten != nil {
				stop()
			}
		},
	}
	if web != "" {
		var end func() error
		end, err = a.demoPages(web, &o, func(line string) error {
			if format == report.JSON {
				_, err := fmt.Fprintln(a.err, line)
				return err
			}
			return show.write("", line)
		})
		if err != nil {
			return err
		}
		defer func() {
			if wrong := end(); wrong != nil && err == nil {
				err = wrong
			}
		}()
	}
	ok, err := demo.Run(ctx, o)
	if unwritten != nil {
		return unwritten
	}
	if err != nil {
		return err
	}
	if format == report.JSON {
		if err := writeLine(w, summaryLine{"summary", ok, scenes, scenes - good, elapsed.Milliseconds()}); err != nil {
			return err
		}
	} else if err := show.summary(ok, scenes, good, elapsed); err != nil {
		return err
	}
	if !ok {
		return exitCode(1)
	}
	return nil
}

// sceneLine and summaryLine are the demo's JSON lines (docs/json.md).
type sceneLine struct {
	Scene     string `json:"scene"`
	OK        bool   `json:"ok"`
	ElapsedMs int64  `json:"elapsedMs"`
	ARMReads  int    `json:"armReads"`
	ARMWrites int    `json:"armWrites"`
	ARMPolls  int    `json:"armPolls"`
	Detail    string `json:"detail"`
}

type summaryLine struct {
	Scene     string `json:"scene"`
	OK        bool   `json:"ok"`
	Scenes    int    `json:"scenes"`
	Failed    int    `json:"failed"`
	ElapsedMs int64  `json:"elapsedMs"`
}

// writeLine writes one JSON object on a line.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// demoText shows the demo to a person.
type demoText struct {
	w     io.Writer
	style report.Style
}

func (t demoText) started(info emulator.Info, d emulator.Demo) error {
	rows := [][]string{
		{"  cluster", d.Cluster.Short(), "kubenet, 3 nodes, pod CIDR 10.244.0.0/16"},
		{"  its route table", d.ClusterTable.Short(), "brought; also leads 0.0.0.0/0 to a firewall"},
		{"  node subnet", d.NodeSubnet.Short(), "brought"},
		{"  gateway subnet", d.GatewaySubnet.Short(), "an Application Gateway, with a table of its own: " + d.GatewayTable.Short()},
	}
	lines := append([]string{"A local Azure listens on " + info.HTTPS + ", and in it are:"}, report.Columns(rows)...)
	return t.write(lines...)
}

func (t demoText) scene(s demo.Scene) error {
	mark, paint := "ok  ", t.style.Green
	if !s.OK {
		mark, paint = "FAIL", t.style.Red
	}
	lines := []string{"", fmt.Sprintf("%s %s  %s", paint(mark), t.style.Bold(s.Name), s.Title)}
	for _, line := range report.ChangeLines(s.Changes, t.style) {
		lines = append(lines, "       "+line)
	}
	return t.write(append(lines,
		"     "+s.Detail,
		"     "+t.style.Dim(report.Duration(s.Elapsed)+"; ARM: "+report.Calls{Reads: s.Reads, Writes: s.Writes, Polls: s.Polls}.String()))...)
}

func (t demoText) summary(ok bool, scenes, good int, elapsed time.Duration) error {
	text := fmt.Sprintf("%d of %d scenes ok in %s.", good, scenes, report.Duration(elapsed))
	if ok {
		text = t.style.Green(text)
	} else {
		text = t.style.Red(text)
	}
	return t.write("", text)
}

func (t demoText) write(lines ...string) error {
	_, err := io.WriteString(t.w, strings.Join(lines, "\n")+"\n")
	return err
}
