module github.com/redo-go/redo/store/mysqlstore

go 1.26.0

replace github.com/redo-go/redo => ../../

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/redo-go/redo v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)
