// Package recordings replays recorded conversations of other projects' tests with the real Azure
// against the local one, and compares the answers. It holds tests only; the recordings are not part
// of the project.
package recordings
