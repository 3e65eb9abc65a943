# Thin on purpose: each target is one command that can as well be typed. CI runs .ci/run.
.PHONY: test lint ci bench quickstart

test:
	go test work

lint:
	bash .ci/run lint

ci:
	bash .ci/run

bench:
	go run ./benchmarks

quickstart:
	go run ./examples/quickstart
