//! Where it is measured: a control plane with simulated nodes, and whoever has the turn.

use std::{path::PathBuf, time::Duration};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use leasehold_tests::{
    disturbance::Hanging,
    environment::Environment,
    operator::Operator,
    playground::{Playground, Shape},
};
use tokio::time::{Instant, sleep};

use crate::{
    Failure,
    contender::Contender,
    counting::{Counts, requests},
    kueue::{self, Kueue},
    options::Options,
    processes::Processes,
};

/// How long a program may take until it answers.
const READY_WITHIN: Duration = Duration::from_mins(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A control plane and its clients.
pub(crate) struct Ground {
    playground: Playground,
    pub(crate) client: Client,
    /// Of the control plane and of the simulated nodes.
    pub(crate) processes: Processes,
    kueue: Option<Kueue>,
}

/// Who has the turn; ends when dropped.
pub(crate) enum Running {
    /// The Job controller always runs.
    ControlPlane,
    Operator(Box<Started>),
    Kueue(kueue::Running),
}

/// An operator that serves its pages.
pub(crate) struct Started {
    pub(crate) operator: Operator,
    /// To its own pages.
    pub(crate) pages: Client,
}

impl Ground {
    /// Starts it; one at a time, so what an earlier one left is taken down.
    pub(crate) async fn up(environment: &Environment, options: &Options) -> Result<Self, Failure> {
        let directory: PathBuf = environment.cache.join("run/bench");
        std::fs::create_dir_all(environment.cache.join("run"))?;
        if Playground::is_in(&directory) {
            drop(Playground::left(environment, &directory));
        }
        let cards = format!("rtx4090:{}", options.cards);
        let shape = Shape { real_nodes: 0, simulated_nodes: options.nodes, cards: &cards };
        println!("starting a control plane with {} simulated nodes", options.nodes);
        let playground = Playground::up_unaudited(environment, &directory, shape)?;
        let file = playground.kubeconfig().ok_or("the playground has no kubeconfig")?;
        let file = Kubeconfig::read_from(file)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        for contender in [Contender::Leasehold, Contender::Job, Contender::Kueue] {
            playground.kubectl(&["create", "namespace", contender.namespace()])?;
        }
        let processes = Processes(playground.processes()?);
        let kueue = environment.kueue.as_ref();
        let kueue = kueue.map(|built| Kueue::install(&playground, built)).transpose()?;
        let ground = Self { playground, client: Client::try_from(config)?, processes, kueue };
        if let Some(kueue) = &ground.kueue {
            let running = kueue.start(&ground.playground).await?;
            kueue.make_queue(&ground.playground).await?;
            drop(running);
        }
        Ok(ground)
    }

    /// Whoever can be measured here.
    pub(crate) fn contenders(&self) -> Vec<Contender> {
        let kueue = self.kueue.as_ref().map(|_| Contender::Kueue);
        [Contender::Leasehold, Contender::Job].into_iter().chain(kueue).collect()
    }

    /// Starts whoever has the turn, and waits until it is ready.
    pub(crate) async fn begin(&self, contender: Contender) -> Result<Running, Failure> {
        Ok(match (contender, &self.kueue) {
            (Contender::Leasehold, _) => Running::Operator(Box::new(self.ready_operator().await?)),
            (Contender::Kueue, Some(kueue)) => Running::Kueue(kueue.start(&self.playground).await?),
            (Contender::Job | Contender::Kueue, _) => Running::ControlPlane,
        })
    }

    /// An operator that has seen everything.
    pub(crate) async fn ready_operator(&self) -> Result<Started, Failure> {
        let started = self.operator().await?;
        until_ready(&started.pages).await?;
        Ok(started)
    }

    /// An operator that has just begun.
    pub(crate) async fn operator(&self) -> Result<Started, Failure> {
        let operator = Operator::start_as_deployed(&self.playground)?;
        let begun = Instant::now();
        let address = loop {
            match operator.address() {
                Some(address) => break address,
                None if begun.elapsed() > READY_WITHIN => return Err(operator.said().into()),
                None => sleep(PAUSE).await,
            }
        };
        let pages = Client::try_from(Config::new(format!("http://{address}").parse()?))?;
        Ok(Started { operator, pages })
    }

    /// Keeps pods from nodes until it is dropped.
    pub(crate) fn without_scheduler(&self) -> Result<Hanging, Failure> {
        Ok(self.playground.hang_scheduler()?)
    }

    /// Takes it down.
    pub(crate) fn down(self) -> Result<(), Failure> {
        Ok(self.playground.down()?)
    }
}

impl Running {
    /// The number of its process.
    pub(crate) fn process(&self) -> Option<u32> {
        match self {
            Self::ControlPlane => None,
            Self::Operator(started) => Some(started.operator.process()),
            Self::Kueue(running) => Some(running.process()),
        }
    }

    /// What the operator asked of the API server so far; nobody else tells.
    pub(crate) async fn requests(&self) -> Result<Counts, Failure> {
        match self {
            Self::Operator(started) => requests(&started.pages).await,
            Self::ControlPlane | Self::Kueue(_) => Ok(Counts::new()),
        }
    }
}

/// Waits until a program says that it is ready.
pub(crate) async fn until_ready(pages: &Client) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let request = hyper::Request::get("/readyz").body(Vec::new())?;
        match pages.request_text(request).await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > READY_WITHIN => return Err(error.into()),
            Err(_) => sleep(PAUSE).await,
        }
    }
}
