package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// BenchmarkEvents posts alerts about a cluster's table to a running keeper of the demo's network,
// over open connections: with the secret in the path, and with a token that is verified each time.
// It counts the checks that they trigger, and their reads.
func BenchmarkEvents(b *testing.B) {
	e := emulatortest.New(b, emulator.Options{LogBodies: 1, Buckets: emulatortest.NoLimits})
	demo, err := emulator.BuildDemo(e, emulatortest.Operator)
	if err != nil {
		b.Fatal(err)
	}
	config := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
		Metadata: v1alpha1.Metadata{Name: "shop"}}
	config.Spec.ClusterID = string(demo.Cluster)
	config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(demo.GatewayTable)}}
	config.SetDefaults()
	alert := bytes.ReplaceAll(fixture(b, "alert-common-schema.json"), []byte(fixtureTable),
		[]byte(demo.ClusterTable))

	keys := newKeyServer(b)
	keys.listen(b)
	for _, way := range []struct {
		name, path, bearer string
		auth               Auth
	}{
		{"secret", "/events/a-long-enough-secret", "",
			Auth{SecretFile: secretFile(b, "a-long-enough-secret")}},
		{"token", "/events", keys.token(b, nil), keys.auth()},
	} {
		b.Run(way.name, func(b *testing.B) {
			k := keeper.New(emulatortest.Client(b, e, emulatortest.Keeper),
				[]v1alpha1.ClusterRoutes{config}, keeper.Options{})
			s, err := Start(Options{Address: "127.0.0.1:0", Auth: way.auth, Metrics: NewMetrics(),
				Log: slog.New(slog.DiscardHandler)}, k)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			var results, reads atomic.Int64
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error)
			first := make(chan struct{})
			go func() {
				done <- k.Run(ctx, time.Hour, func(r keeper.Result) {
					if results.Add(1) == 1 {
						close(first)
					} else {
						reads.Add(int64(r.Reads))
					}
				})
			}()
			<-first
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+
						s.Address()+way.path, bytes.NewReader(alert))
					if err != nil {
						b.Error(err)
						return
					}
					r.Header.Set("Content-Type", "application/json")
					if way.bearer != "" {
						r.Header.Set("Authorization", "Bearer "+way.bearer)
					}
					response, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					if response.StatusCode != http.StatusOK {
						b.Errorf("%s", response.Status)
						return
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(results.Load()-1), "checks")
			b.ReportMetric(float64(reads.Load()), "ARM-reads")
			cancel()
			if err := <-done; err != nil {
				b.Error(err)
			}
		})
	}
}
