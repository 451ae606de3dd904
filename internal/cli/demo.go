package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/demo"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/report"
)

func newDemo(a *app) *cobra.Command {
	var web string
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show on a local Azure emulator how routekeeper repairs routes",
		Long: `Starts a local Azure emulator on loopback, builds a network with a kubenet
cluster and an Application Gateway and an overlay cluster behind a firewall,
and starts a keeper. Then it plays nine scenes: a first sync, scaling out, a
redeploy that strips route tables, a node with a new address, unmanaged routes,
scaling in, a route table that suddenly reads empty, a redeploy that lets nodes
past the firewall, and quiet. After each scene another client checks the
network. The demo needs no Azure account, and nothing leaves this machine.

With --web you can watch it in a browser, on the pages that run --listen shows.
It opens the browser and waits until you press Play there. The scenes play more
slowly, you can play each one again, and the demo ends with Ctrl-C.

Exit code 0: every scene is ok; 1: a scene is not ok, or an error.`,
		Example: `  routekeeper demo
  routekeeper demo --web
  routekeeper demo --web=127.0.0.1:9000
  routekeeper demo -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("emulator") {
				return errors.New("--emulator: the demo starts its own emulator")
			}
			if noBrowser && web == "" {
				return errors.New("--no-browser: --web is missing")
			}
			return runDemo(cmd.Context(), a, web, !noBrowser)
		},
	}
	cmd.Flags().StringVar(&web, "web", "", "serve pages for a browser at this `address` of this "+
		"machine")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "with --web: do not open the browser")
	cmd.Flags().Lookup("web").NoOptDefVal = "127.0.0.1:8080"
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func runDemo(ctx context.Context, a *app, web string, browser bool) (err error) {
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
	show := &demoReport{w: w, format: format, style: style}
	elapsed := time.Duration(0)
	var unwritten error
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	o := demo.Options{
		Dir:           dir,
		OperationTime: 300 * time.Millisecond,
		RouteBatch:    500 * time.Millisecond,
		NewKeeper: func(info emulator.Info, configs []v1alpha1.ClusterRoutes) (demo.Keeper, error) {
			client, err := connectEmulator(info, azure.Options{})
			if err != nil {
				return nil, err
			}
			return keeper.New(client, configs, keeper.Options{}), nil
		},
		Started: func(info emulator.Info, d emulator.Demo, web emulator.Firewalled) {
			unwritten = show.started(info, d, web)
		},
		Scene: func(s demo.Scene) {
			elapsed = time.Since(start)
			unwritten = errors.Join(unwritten, show.scene(s))
			if unwritten != nil {
				stop()
			}
		},
	}
	if web != "" {
		var end func() error
		end, err = demoPages(ctx, web, browser, &o, func(line string) error {
			if format == report.JSON {
				_, err := fmt.Fprintln(a.err, report.Plain(line))
				return err
			}
			return show.say(line)
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
	if err := show.summary(ok, elapsed); err != nil {
		return err
	}
	if !ok {
		return exitCode(1)
	}
	return nil
}
