package controller

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/errors"
)

// demoted is a log of the Kubernetes libraries, which say at each start and end what they do: that
// is for --verbose. Their warnings and errors stay.
type demoted struct{ slog.Handler }

func (d demoted) level(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}

// exists reports whether the error of a line says that something exists already.
func (d demoted) exists(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		is = is || ok && errors.IsAlreadyExists(err)
		return !is
	})
	return is
}

// Enabled reports whether a line of the level is written.
func (d demoted) Enabled(ctx context.Context, l slog.Level) bool {
	return d.Handler.Enabled(ctx, d.level(l))
}

// race is what the election calls an error if another replica made the Lease first.
const race = "Error initially creating lease lock"

// Handle writes a line.
func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = d.level(r.Level)
	if r.Message == race && d.exists(r) {
		r.Level = slog.LevelDebug
		if !d.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return d.Handler.Handle(ctx, r)
}

// WithAttrs returns the log with attributes.
func (d demoted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoted{d.Handler.WithAttrs(attrs)}
}

// WithGroup returns the log with a group.
func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.Handler.WithGroup(name)} }
