package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/bundle"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/report"
)

func newCollect(a *app) *cobra.Command {
	var o examineOptions
	cmd := &cobra.Command{
		Use:   "collect [CLUSTER…] --out bundle.tgz",
		Short: "Save everything that doctor reads, to diagnose it elsewhere",
		Long: `Reads everything that doctor and trace read and saves it in one file, with the
Azure Firewalls and load balancers to which routes lead. Use the file with doctor
--from-bundle and trace --from-bundle: on a machine without access to Azure, on
a colleague's machine, or later.

The file is a .tar.gz of JSON documents that you can read. It holds no secrets,
tokens or tags; of nodes and pods it holds only names and addresses. Names,
addresses and IDs are not anonymized.`,
		Example: `  routekeeper doctor collect shop --out shop.tgz
  routekeeper doctor collect -f routes.yaml --out before.tgz
  routekeeper doctor --from-bundle shop.tgz`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCollect(cmd.Context(), a, o) },
	}
	examineFlags(a, cmd, &o, false)
	o.choice.flags(cmd)
	a.outFlag(cmd)
	return cmd
}

func runCollect(ctx context.Context, a *app, o examineOptions) error {
	if terminal(a.out) && (a.outPath == "" || a.outPath == "-") {
		return errors.New("--out: expected a file such as bundle.tgz: a bundle cannot be shown " +
			"on a terminal")
	}
	w, err := a.open(replacePrivate)
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "reading the network")
	defer progress.stop()
	o.firewalls = true
	e, err := a.examine(ctx, o, progress)
	if err != nil {
		return err
	}
	found, err := e.diagnosis(ctx) // the findings say whose changes to look up
	if err != nil {
		return err
	}
	progress.stop()
	if err := bundle.Write(w, bundle.Bundle{Snapshot: e.Snapshot, Program: version(),
		Clusters: e.Clusters, Configs: e.Configs, Proposed: e.Proposed}); err != nil {
		return err
	}
	if a.outPath != "" && a.outPath != "-" {
		d := report.Diagnosis{Clusters: e.names(), Findings: found}
		say(a.err, "wrote %s (%s); next: %s\n", a.outPath, d.Sentence(),
			finding.Command("%s doctor --from-bundle %s", "routekeeper", a.outPath))
	}
	return nil
}
