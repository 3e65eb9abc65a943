//go:build !unix

package clientcheck

import "os/exec"

// ownGroup does nothing: only the command itself is killed here, not its children.
func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
