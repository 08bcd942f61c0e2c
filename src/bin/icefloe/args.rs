//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};

/// Query Apache Iceberg tables with SQL.
#[derive(Debug, Parser)]
#[command(name = "icefloe", version, about)]
pub struct Args {
    /// Run the statements of SQL and exit (may be given several times)
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    commands: Vec<String>,

    /// Run the statements of FILE and exit (may be given several times)
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print results only, without row counts and times
    #[arg(short, long)]
    pub quiet: bool,

    /// How results are printed
    #[arg(long, value_enum, default_value = "automatic")]
    pub format: Format,

    /// How many rows of a result the table format shows: a number or `inf`
    #[arg(long, default_value = "40")]
    pub maxrows: MaxRows,

    /// How much memory queries may take before they spill to disk or fail, such as 512m or 4g
    #[arg(short, long, value_name = "BYTES")]
    pub memory_limit: Option<Bytes>,

    /// Read catalogs from this file instead of icefloe/icefloe.toml in the user's configuration
    #[arg(long, value_name = "FILE", env = "ICEFLOE_CONFIG")]
    pub catalog_conf: Option<PathBuf>,

    /// The catalog of names without one
    #[arg(long, value_name = "NAME", env = "ICEFLOE_CATALOG")]
    pub catalog: Option<String>,

    /// Keep a catalog in the directory DIR (DIR/catalog.db), with its tables
    #[arg(long, value_name = "DIR", env = "ICEFLOE_WAREHOUSE")]
    pub warehouse: Option<PathBuf>,

    /// What the catalog of --warehouse is called
    #[arg(long, value_name = "NAME", default_value = "ice", requires = "warehouse")]
    pub catalog_name: String,
}

/// What is to be run instead of a dialogue.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The argument of `-c`.
    Command(String),
    /// The argument of `-f`.
    File(PathBuf),
}

impl Args {
    /// Reads the command line; ends the process on errors, `--help` and `--version`.
    pub fn from_command_line() -> (Self, Vec<Input>) {
        let matches = Self::command().get_matches();
        match Self::from_arg_matches(&matches) {
            Ok(args) => {
                let inputs = args.inputs(&matches);
                (args, inputs)
            }
            Err(error) => error.exit(),
        }
    }

    /// The values of `-c` and `-f` in the order of the command line.
    fn inputs(&self, matches: &ArgMatches) -> Vec<Input> {
        let places = |id: &str| matches.indices_of(id).into_iter().flatten().collect::<Vec<_>>();
        let commands = places("commands").into_iter().zip(self.commands.iter().cloned().map(Input::Command));
        let files = places("files").into_iter().zip(self.files.iter().cloned().map(Input::File));
        let mut inputs: Vec<_> = commands.chain(files).collect();
        inputs.sort_by_key(|(place, _)| *place);
        inputs.into_iter().map(|(_, input)| input).collect()
    }
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns in a frame
    Table,
    /// Comma-separated values with a header
    Csv,
    /// Tab-separated values with a header
    Tsv,
    /// One JSON array of objects
    Json,
    /// One JSON object a line
    NdJson,
    /// The same as table
    Automatic,
}

impl Format {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_string()).unwrap_or_default()
    }
}

/// How many rows of a result are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxRows(pub usize);

impl FromStr for MaxRows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "inf" | "infinite" | "none" => Ok(Self(usize::MAX)),
            number => number.parse().map(Self).map_err(|_| format!("`{text}` is neither a number nor `inf`")),
        }
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a size such as 500000000, 512m or 4g");
        let lower = text.trim().to_ascii_lowercase();
        let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match lower.get(digits.len()..).unwrap_or_default() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(wrong()),
        };
        let number: usize = digits.parse().map_err(|_| wrong())?;
        match number.checked_mul(1 << shift) {
            Some(bytes) if bytes > 0 => Ok(Self(bytes)),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<(Args, Vec<Input>), String> {
        let matches = Args::command()
            .try_get_matches_from(std::iter::once("icefloe").chain(args.iter().copied()))
            .map_err(|e| e.to_string())?;
        let args = Args::from_arg_matches(&matches).map_err(|e| e.to_string())?;
        let inputs = args.inputs(&matches);
        Ok((args, inputs))
    }

    #[test]
    fn inputs_keep_their_order() {
        let (args, inputs) =
            parse(&["-c", "a", "-f", "b.sql", "-q", "--command", "c", "--file=d.sql"]).unwrap();
        assert!(args.quiet);
        assert_eq!(
            inputs,
            [
                Input::Command("a".into()),
                Input::File("b.sql".into()),
                Input::Command("c".into()),
                Input::File("d.sql".into())
            ]
        );
        assert!(parse(&[]).unwrap().1.is_empty());
    }

    #[test]
    fn values() {
        let (args, _) = parse(&["--format", "nd-json", "--maxrows", "inf", "-m", "2g"]).unwrap();
        assert_eq!(args.format, Format::NdJson);
        assert_eq!(args.maxrows, MaxRows(usize::MAX));
        assert_eq!(args.memory_limit, Some(Bytes(2 << 30)));
        let (args, _) = parse(&["--warehouse", "/x", "--catalog", "c"]).unwrap();
        assert_eq!((args.catalog_name.as_str(), args.catalog.as_deref()), ("ice", Some("c")));
        assert!(parse(&["--catalog-name", "x"]).is_err());
        let (args, _) = parse(&[]).unwrap();
        assert_eq!((args.format, args.maxrows, args.memory_limit), (Format::Automatic, MaxRows(40), None));
        for wrong in [
            ["--format", "xml"],
            ["--maxrows", "-1"],
            ["-m", "2 apples"],
            ["-m", "0"],
            ["-m", "99999999999t"],
        ] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_format_has_its_name() {
        for format in Format::value_variants() {
            assert_eq!(Format::from_str(&format.name(), false), Ok(*format));
        }
    }
}
