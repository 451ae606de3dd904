package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/silence"
	"routekeeper.dev/routekeeper/internal/verdict"
)

type statusOptions struct {
	configs []string
	url     string
	watch   bool

	kubernetes                     bool
	kubeconfig, context, namespace string
}

func newStatus(a *app) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a keeper's clusters, one line each",
		Long: `Shows the state of each cluster of a keeper. It asks a keeper that runs with
--listen (--url), reads the history next to the config, or reads ClusterRoutes
objects (--kubernetes, the default of kubectl routekeeper status and of
routekeeper-controller status). It sends no request to Azure.

Exit code 0: all is well; 1: the keeper or its history cannot be read; 2:
something is broken or at risk.`,
		Example: `  routekeeper status
  routekeeper status -f routes.yaml
  routekeeper status --url http://127.0.0.1:8080 --watch
  routekeeper status --kubernetes --context management`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			of := cmd.Root().DisplayName()
			objects := (of == plugin || of == controllerProgram) && o.url == "" &&
				len(o.configs) == 0
			o.kubernetes = o.kubernetes || objects || o.kubeconfig != "" || o.context != "" ||
				o.namespace != ""
			return runStatus(cmd.Context(), a, o)
		},
	}
	optionalConfigFlag(cmd, &o.configs)
	cmd.Flags().StringVar(&o.url, "url", "",
		"`address` of the keeper's page, with name:password@ if it needs them")
	cmd.Flags().BoolVar(&o.watch, "watch", false, "show it again whenever it changes, until Ctrl-C")
	f := cmd.Flags()
	f.BoolVar(&o.kubernetes, "kubernetes", false, "read the ClusterRoutes objects of a Kubernetes "+
		"API server, and whether a controller runs")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "reach the API server with this kubeconfig "+
		"`FILE` (default the pod's service account, or kubectl's)")
	f.StringVar(&o.context, "context", "", "`NAME` of the kubeconfig's context")
	_ = cmd.MarkFlagFilename("kubeconfig")
	f.StringVar(&o.namespace, "namespace", "", "the controller's own `NAMESPACE`, which has the "+
		"Lease (default the pod's, or any)")
	for _, name := range []string{"kubernetes", "kubeconfig", "context", "namespace"} {
		cmd.MarkFlagsMutuallyExclusive("file", "url", name)
	}
	a.outputFlags(cmd, report.Text, report.Short, report.Markdown, report.JSON)
	return cmd
}

// watchEach is how often status --watch reads the status.
const watchEach = 2 * time.Second

func runStatus(ctx context.Context, a *app, o statusOptions) error {
	read := func(ctx context.Context) (report.Status, error) {
		return statusByHistory(o.configs, a.readConfig)
	}
	if o.kubernetes {
		read = func(ctx context.Context) (report.Status, error) { return statusByObjects(ctx, o) }
	}
	if o.url != "" {
		at, err := url.Parse(o.url)
		if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
			return fmt.Errorf("--url: %q is not an address, expected http://HOST:PORT or "+
				"https://HOST:PORT", report.Plain(o.url))
		}
		read = func(ctx context.Context) (report.Status, error) { return statusByPage(ctx, at) }
	}
	w, format, style, err := a.stream()
	if err != nil {
		return err
	}
	w = folded(a, w, format)
	if o.watch {
		return watchStatus(ctx, a, read, w, format, style)
	}
	s, err := read(ctx)
	if err != nil {
		return err
	}
	return attentionIf(!s.Good(), s.Write(w, format, style))
}

// watchStatus shows the status again and again. On a terminal it replaces the previous one.
// Elsewhere it prints only if something other than the time has changed.
func watchStatus(
	ctx context.Context, a *app, read func(context.Context) (report.Status,
		error), w io.Writer, format report.Format, style report.Style,
) error {
	live := terminal(a.out) && a.outPath == "" && format == report.Text
	last := ""
	for {
		s, err := read(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && last == "" {
			return err
		}
		var b strings.Builder
		key := ""
		if err != nil {
			key = report.Plain(err.Error())
			fmt.Fprintln(&b, key)
		} else {
			key = s.Key()
			if err := s.Write(&b, format, style); err != nil {
				return err
			}
		}
		if live || key != last {
			text := b.String()
			switch {
			case live:
				fmt.Fprint(a.out, "\x1b[H\x1b[2J") // clear what was shown before
			case last != "" && format != report.JSON:
				text = "\n" + text
			}
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
			last = key
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEach):
		}
	}
}

// statusByPage reads the status from a keeper that listens.
func statusByPage(ctx context.Context, at *url.URL) (report.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		at.JoinPath("index.json").String(), nil)
	if err != nil {
		return report.Status{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if cause, ok := errors.AsType[*os.SyscallError](err); ok { // without the address twice
			err = cause
		}
		return report.Status{}, fmt.Errorf("--url: no keeper answers at %s: %w", at.Redacted(),
			errors.Unwrap(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return report.Status{}, err
	}
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return report.Status{}, fmt.Errorf("%s does not know this caller: expected --url with "+
			"name:password@, as in its --auth-users-file", at.Redacted())
	default:
		return report.Status{}, fmt.Errorf("%s answers %s, expected a keeper's page", at.Redacted(),
			response.Status)
	}
	s := report.Status{Source: at.Redacted(), Live: true, Now: time.Now()}
	if err := json.Unmarshal(body, &s); err != nil || s.Clusters == nil {
		return report.Status{}, fmt.Errorf("%s does not answer as a keeper's page does",
			at.Redacted())
	}
	s.Findings = slices.DeleteFunc(s.Findings, func(f finding.Finding) bool {
		return f.Cluster != ""
	})
	return s, nil
}

// statusByHistory reads the status from the history and the pause file next to a config.
func statusByHistory(configs []string, read func([]string) ([]v1alpha1.ClusterRoutes, error)) (
	report.Status, error) {
	configs, err := configsOrHere(configs)
	if err != nil {
		return report.Status{}, err
	}
	docs, err := read(configs)
	if err != nil {
		return report.Status{}, err
	}
	path := historyNextTo(configs)
	r, err := history.Read(path)
	if err != nil {
		return report.Status{}, err
	}
	defer r.Close()
	now, err := r.Now()
	if err != nil {
		return report.Status{}, err
	}
	repairs, err := r.Repairs("", time.Now())
	if err != nil {
		return report.Status{}, err
	}
	times := report.RepairTimes(repairs)
	s := report.Status{Source: path, Repairs: &times, Checked: now.Recorded, Now: time.Now()}
	store := silence.Open(strings.TrimSuffix(path, history.Extension)+silence.Extension, nil)
	now.Findings = silence.Mark(store.Current(), now.Findings)
	for _, doc := range docs {
		c := report.ClusterStatus{Name: doc.Metadata.Name, State: verdict.Unseen,
			Sentence: "not checked yet", Findings: []finding.Finding{}}
		for _, f := range now.Findings {
			if f.Cluster == c.Name {
				c.Findings = append(c.Findings, f)
			}
		}
		if v, known := now.Verdicts[arm.ID(doc.Spec.ClusterID).Key()]; known {
			v = v.Quiet(c.Findings)
			c.Verdict, c.State, c.Sentence = &v, v.State.Color(), v.Sentence
		}
		s.Clusters = append(s.Clusters, c)
	}
	for _, f := range now.Findings {
		if f.Cluster == "" {
			s.Findings = append(s.Findings, f)
		}
	}
	if i := slices.IndexFunc(s.Findings, finding.Finding.IsOutage); i >= 0 {
		s.Sentence = s.Findings[i].Message
	}
	s.Paused = daemon.Paused(configs)
	return s, nil
}
