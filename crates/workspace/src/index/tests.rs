use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::walk::Walk;
use super::*;

/// A folder with these files, each with its name as content.
fn folder(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    dir
}

fn indexed(dir: &Path) -> (Root, Index) {
    let root = Root::open(dir).unwrap();
    let git = dir.join(".git").exists().then(|| (root.path().to_owned(), root.path().join(".git")));
    let rules = Rules::of(root.path(), git.as_ref().map(|(top, common)| (top.as_path(), common.as_path())));
    let stop = AtomicBool::new(false);
    let walk = Walk { root: &root, rules: &rules, enter: &(), stop: &stop, most: ENTRIES_MAX };
    let walked = walk.beneath(Path::new(""), rules.around.clone()).unwrap();
    let index = Index::default();
    *index.write() = walked.paths.into_iter().collect();
    (root, index)
}

fn files(index: &Index) -> Vec<String> {
    let names = index.read();
    let files = names.iter().filter(|(_, known)| !known.is_folder());
    files.map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect()
}

fn found(root: &Root, index: &Index, text: &str, mode: QueryMode) -> Vec<String> {
    let query = NameQuery { text: text.into(), mode, limit: 50, ..NameQuery::default() };
    index.search(root, &query).files.iter().map(|file| file.path.display().to_string()).collect()
}

#[test]
fn what_is_ignored_is_not_in_the_index_and_neither_is_what_git_keeps() {
    let dir = folder(&[
        ".git/HEAD",
        ".git/info/exclude",
        ".gitignore",
        "a.rs",
        "target/x",
        "src/b.rs",
        "src/c.log",
        "src/keep.log",
        "excluded",
        ".hidden/d",
        "..hidden",
        "stronger.txt",
    ]);
    fs::write(dir.path().join(".gitignore"), "target/\n*.log\n").unwrap();
    fs::write(dir.path().join("src/.gitignore"), "!keep.log\n").unwrap();
    fs::write(dir.path().join(".git/info/exclude"), "/excluded\n").unwrap();
    fs::write(dir.path().join(".ignore"), "stronger.txt\n").unwrap();
    symlink("/etc", dir.path().join("out")).unwrap();
    let (_, index) = indexed(dir.path());
    let there =
        ["..hidden", ".gitignore", ".hidden/d", ".ignore", "a.rs", "out", "src/.gitignore", "src/b.rs", "src/keep.log"];
    assert_eq!(files(&index), there);
    assert_eq!((index.totals().folders, index.totals().files), (2, 9));
}

#[test]
fn rules_of_git_end_at_the_top_of_an_inner_repository_and_begin_above_the_root() {
    let dir = folder(&[".git/HEAD", "a/inner/.git/HEAD", "a/inner/x.log", "a/y.log", "a/z"]);
    fs::write(dir.path().join(".gitignore"), "*.log\n").unwrap();
    let (_, index) = indexed(dir.path());
    assert_eq!(files(&index), [".gitignore", "a/inner/x.log", "a/z"]);
    let (top, below) = (dir.path().canonicalize().unwrap(), dir.path().join("a").canonicalize().unwrap());
    let rules = Rules::of(&below, Some((&top, &top.join(".git"))));
    assert!(rules.ignores(rules.around.as_deref(), &below.join("y.log"), false));
    assert!(!rules.ignores(rules.around.as_deref(), &below.join("z"), false));
}

#[test]
fn a_pipe_under_the_name_of_rules_holds_nothing_up() {
    let dir = folder(&["a"]);
    let pipe = dir.path().join(".gitignore");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let (root, index) = indexed(dir.path());
    assert_eq!(files(&index), [".gitignore", "a"]);
    let all = index.search(
        &root,
        &NameQuery { limit: 9, filters: Filters { binary: Some(false), ..Filters::default() }, ..NameQuery::default() },
    );
    assert_eq!(all.total, 2);
}

#[test]
fn names_are_found_by_letters_parts_beginnings_and_endings() {
    let dir = folder(&["src/utils.js", "src/main.rs", "docs/Main.md", "lib/domain.rs", "ünï.txt"]);
    let (root, index) = indexed(dir.path());
    let found = |text: &str, mode| found(&root, &index, text, mode);
    assert_eq!(found("utl", QueryMode::Fuzzy), ["src/utils.js"]);
    assert_eq!(found("main", QueryMode::Fuzzy).first().map(String::as_str), Some("src/main.rs"));
    assert_eq!(found("main", QueryMode::Fuzzy).len(), 3);
    assert_eq!(found("AIN.", QueryMode::Exact), ["src/main.rs", "docs/Main.md", "lib/domain.rs"]);
    assert_eq!(found("main", QueryMode::Prefix), ["src/main.rs", "docs/Main.md"]);
    assert_eq!(found("src/", QueryMode::Prefix), ["src/main.rs", "src/utils.js"]);
    assert_eq!(found(".rs", QueryMode::Extension), ["src/main.rs", "lib/domain.rs"]);
    assert_eq!(found("ÜNÏ", QueryMode::Exact), ["ünï.txt"]);
    assert_eq!(found("", QueryMode::Fuzzy).len(), 5);
    assert_eq!(found("zzz", QueryMode::Fuzzy), [""; 0]);
}

#[test]
fn a_ranking_is_the_same_in_pages_as_in_one() {
    let names: Vec<String> = (0..300).map(|number| format!("d{}/f{number}.rs", number % 7)).collect();
    let dir = folder(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let (root, index) = indexed(dir.path());
    let page = |offset, limit| {
        let query = NameQuery { text: "f1".into(), limit, offset, ..NameQuery::default() };
        index.search(&root, &query)
    };
    let whole = page(0, 1000);
    let paged: Vec<_> = (0..whole.total as usize).step_by(7).flat_map(|offset| page(offset, 7).files).collect();
    assert!(whole.total > 100 && whole.files == paged);
    assert!(whole.files.windows(2).all(|two| two[0].score >= two[1].score));
}

#[test]
fn filters_hold_together_with_every_way_of_looking() {
    let dir = folder(&["a.rs", "b.txt", ".env", "no_ending", "picture.png"]);
    fs::write(dir.path().join("big.rs"), vec![b'x'; 5000]).unwrap();
    fs::write(dir.path().join("blob"), b"\x7fELF\0\0").unwrap();
    let (root, index) = indexed(dir.path());
    index.set_tracked(&root, &["a.rs".into(), "gone.rs".into()]);
    let with = |filters: Filters| {
        let found = index.search(&root, &NameQuery { filters, limit: 50, ..NameQuery::default() });
        let mut names: Vec<_> = found.files.iter().map(|file| file.path.display().to_string()).collect();
        names.sort();
        assert_eq!(found.total as usize, names.len());
        names
    };
    let none = Filters::default;
    assert_eq!(with(Filters { extensions: vec!["rs".into(), ".TXT".into()], ..none() }), ["a.rs", "b.txt", "big.rs"]);
    assert_eq!(with(Filters { min_size: Some(1000), ..none() }), ["big.rs"]);
    assert_eq!(with(Filters { max_size: Some(4), ..none() }), [".env", "a.rs"]);
    assert_eq!(with(Filters { tracked: Some(true), ..none() }), ["a.rs"]);
    assert_eq!(with(Filters { binary: Some(true), ..none() }), ["blob", "picture.png"]);
    assert_eq!(
        with(Filters { binary: Some(false), sensitive: Some(false), tracked: Some(false), ..none() }),
        ["b.txt", "big.rs", "no_ending"]
    );
    assert_eq!(with(Filters { sensitive: Some(true), ..none() }), [".env"]);
}

#[test]
fn what_git_has_is_in_the_index_although_it_is_ignored() {
    let dir = folder(&[".git/HEAD", "kept.log"]);
    fs::write(dir.path().join(".gitignore"), "*.log\n").unwrap();
    let (root, index) = indexed(dir.path());
    assert_eq!(files(&index), [".gitignore"]);
    index.set_tracked(&root, &[".gitignore".into(), "kept.log".into()]);
    let found = index.search(&root, &NameQuery { text: "kept".into(), limit: 1, ..NameQuery::default() });
    assert!(found.files[0].tracked && found.files[0].ignored);
}

#[test]
fn a_folder_is_listed_sorted_and_in_pages_with_what_is_beneath_its_folders() {
    let dir = folder(&["src/b.rs", "src/a.rs", "src/C.rs", "src/deep/er/x.rs", "src/deep/y", "src2/z", "top"]);
    fs::create_dir(dir.path().join("src/empty")).unwrap();
    let (_, index) = indexed(dir.path());
    let list = |query: ListQuery| index.list(&query).unwrap();
    let query = || ListQuery { folder: "src".into(), limit: 2, ..ListQuery::default() };
    let names =
        |listed: &ListedFolder| listed.files.iter().map(|file| file.path.display().to_string()).collect::<Vec<_>>();
    let page = list(query());
    assert_eq!((names(&page), page.total_files, page.more), (vec!["src/a.rs".into(), "src/b.rs".into()], 3, true));
    assert_eq!(names(&list(ListQuery { offset: 2, ..query() })), ["src/C.rs"]);
    assert_eq!(names(&list(ListQuery { descending: true, ..query() })), ["src/C.rs", "src/b.rs"]);
    assert_eq!(list(ListQuery { recursive: true, ..query() }).total_files, 5);
    let folders: Vec<_> = page.folders.iter().map(|folder| (folder.path.display().to_string(), folder.files)).collect();
    assert_eq!(folders, [("src/deep".into(), 2), ("src/empty".into(), 0)]);
    let bytes = ("src/deep/er/x.rs".len() + "src/deep/y".len()) as u64;
    assert_eq!((page.folders[0].bytes, page.total_folders), (bytes, 2));
    assert!(index.list(&ListQuery { folder: "top".into(), ..query() }).is_none(), "a file is no folder");
    assert!(index.list(&ListQuery { folder: "sr".into(), ..query() }).is_none());
    let by_size =
        list(ListQuery { sort: Sort::Size, recursive: true, descending: true, limit: 1, ..ListQuery::default() });
    assert_eq!(names(&by_size), ["src/deep/er/x.rs"]);
}

#[test]
fn a_tree_is_as_deep_as_asked_and_counts_what_it_does_not_show() {
    let dir = folder(&["a/b/c/d", "a/x", "y"]);
    let (_, index) = indexed(dir.path());
    let tree = index.tree(Path::new(""), 2).unwrap();
    assert_eq!((tree.files, tree.children.len()), (3, 2));
    let a = &tree.children[0];
    assert_eq!((a.path.as_path(), a.files, a.children.len(), a.cut), (Path::new("a"), 2, 2, false));
    assert_eq!((a.children[0].files, a.children[0].children.len(), a.children[0].cut), (1, 0, true));
    assert!(index.tree(Path::new("y"), 2).is_none());
}

#[test]
fn figures_are_those_of_the_files() {
    let dir = folder(&["a.rs", "b.rs", "c.TXT", "none", ".env", "p.png"]);
    let (root, index) = indexed(dir.path());
    index.set_tracked(&root, &["a.rs".into()]);
    let stats = index.stats(&root);
    assert_eq!(stats.extensions, [(String::new(), 2), ("rs".into(), 2), ("png".into(), 1), ("txt".into(), 1)]);
    assert_eq!((stats.tracked, stats.binary, stats.sensitive, stats.totals.files), (1, 1, 1, 6));
    assert_eq!((stats.largest.len(), stats.largest[0].size), (6, 5));
}

#[test]
fn a_file_costs_its_path_and_less_than_two_hundred_bytes() {
    assert!(size_of::<Known>() + size_of::<Box<[u8]>>() <= 64);
    let names: Names = (0..10_000_u32)
        .map(|number| {
            let path = format!("some/folder/file-{number:05}.rs").into_bytes();
            (path.into_boxed_slice(), Known::folder())
        })
        .collect();
    let paths: u64 = names.iter().map(|(path, _)| path.len() as u64).sum();
    assert!((names.totals().memory - paths) / 10_000 <= 200);
}

#[test]
fn an_index_of_fifty_thousand_files_in_one_folder_is_whole_and_bounded_beyond() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..50_000 {
        fs::File::create(dir.path().join(format!("file-{number}"))).unwrap();
    }
    let (root, index) = indexed(dir.path());
    assert_eq!(index.totals().files, 50_000);
    assert_eq!(found(&root, &index, "file-49999", QueryMode::Exact), ["file-49999"]);
    let (rules, stop) = (Rules::default(), AtomicBool::new(false));
    let walked =
        Walk { root: &root, rules: &rules, enter: &(), stop: &stop, most: 1000 }.beneath(Path::new(""), None).unwrap();
    assert!(walked.gaps.cut && walked.paths.len() == 1000);
}
