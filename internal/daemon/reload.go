package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// watchEvery is how often the files of a config are checked. Changed files are read only after they
// have stayed the same for this time, because an editor may still be writing them.
const watchEvery = time.Second

// ConfigFiles read the config of a daemon from files.
type ConfigFiles struct {
	// Read returns the whole config, or the error that makes it invalid.
	Read func() ([]v1alpha1.ClusterRoutes, error)
	// Fingerprint changes when the files change. An error means that this is unknown at the moment.
	// Nil means that the config cannot be read twice.
	Fingerprint func() (string, error)
}

// reload reads a config again when its files change, or at a SIGHUP, until the context ends.
type reload struct {
	files ConfigFiles
	// shortage receives an error of reading, and reports whether there are too many open files.
	shortage func(error) bool
	current  []v1alpha1.ClusterRoutes
	log      *slog.Logger
	// take receives a valid config that differs from the current one.
	take func([]v1alpha1.ClusterRoutes)
	// tell receives the error of each read, nil for a valid config.
	tell func(error)
}

func (r *reload) run(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	if r.files.Fingerprint == nil {
		<-ctx.Done() // a SIGHUP does not end the program
		return
	}
	r.follow(ctx, hangup)
}

// follow reads the config when its files change, or at a signal.
func (r *reload) follow(ctx context.Context, hangup <-chan os.Signal) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	read, err := r.files.Fingerprint()
	last := read
	asked := err != nil // what is in use can be older than the files
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			asked = true
		case <-tick.C:
		}
		now, err := r.files.Fingerprint()
		if r.shortage(err) { // it is not known whether the config has changed
			continue
		}
		settled := now == last
		last = now
		if !asked && (now == read || !settled) {
			continue
		}
		read = now
		asked = !r.readAgain()
	}
}

// readAgain reads the config, and reports whether it could: too many open files say nothing about
// the config.
func (r *reload) readAgain() bool {
	configs, err := r.files.Read()
	if r.shortage(err) {
		return false
	}
	r.tell(err)
	switch {
	case err != nil:
		r.log.Error("the new config has an error; the old one stays in use", "error", err.Error())
	case reflect.DeepEqual(configs, r.current):
		r.log.Info("the config was read again, without changes to clusters")
	default:
		r.current = configs
		r.log.Info("the config was read again", "clusters", len(configs))
		r.take(configs)
	}
	return true
}
