// Release builds what a release of routekeeper consists of, without a daemon and without a network:
// archives, images, chart, manifests, SBOMs and checksums. The same commit, Go and version make the
// same bytes. It also pushes the images and the chart to a registry.
//
// It is a separate module, so that its dependencies are not in the program's go.mod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
)

const usage = `usage: go -C release run . build [flags]
       go -C release run . push --dist DIR --repository OWNER/NAME

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	dist := f.String("dist", "../dist", "`folder` of the release")
	source := f.String("source", "..", "`folder` of the source, a git checkout")
	version := f.String("version", "", "`version`, such as v1.2.3 (default: the commit's tag, "+
		"or a "+
		"snapshot)")
	repository := f.String("repository", "", "`OWNER/NAME` of the GitHub repository that "+
		"publishes it: chart and formula name its addresses")
	targets := f.String("platforms", strings.Join(platforms, ","), "`platforms` to build for")
	f.Usage = func() {
		fmt.Fprint(f.Output(), usage)
		f.PrintDefaults()
	}
	if len(args) == 0 || args[0] != "build" && args[0] != "push" {
		f.Usage()
		return errors.New("expected build or push")
	}
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	at, err := addressesOf(*repository)
	if err != nil {
		return err
	}
	if args[0] == "push" {
		return push(ctx, *dist, at)
	}
	r := release{source: *source, dist: *dist, at: at, platforms: strings.Split(*targets, ",")}
	for _, p := range r.platforms {
		if !slices.Contains(platforms, p) {
			return fmt.Errorf("--platforms: %q is not one of %s", p, strings.Join(platforms, ", "))
		}
	}
	if err := r.identify(ctx, *version); err != nil {
		return err
	}
	return r.build(ctx)
}
