// Package deploy holds what runs and watches routekeeper elsewhere: a unit for systemd, alert rules
// for Prometheus, a dashboard for Grafana. Its tests use these files with the program, Prometheus'
// own engine and systemd's own check. So a flag, a metric or a label cannot be renamed in one place
// only.
//
// It holds tests only, and is a module of its own: only they compile Prometheus.
package deploy
